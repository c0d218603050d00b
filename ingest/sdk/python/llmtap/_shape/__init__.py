"""Removes the content of bodies and keeps the values of the message protocol: capture mode "shape".

Package ingest/shape is the reference: the same body gives the same bytes here. shape_paths.json has the protocol positions of
each dialect.
"""
