"""Takes the content out of bodies and leaves what the message protocol is about: capture mode "shape".

Package ingest/shape is the reference: the same body gives the same bytes here. shape_paths.json says which positions are
protocol, per dialect, and what becomes of all else.
"""
