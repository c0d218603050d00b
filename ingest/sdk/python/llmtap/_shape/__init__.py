"""Removes content from bodies but retains the values of the message protocol (capture mode "shape").

Package ingest/sdk/go/shape is the reference: the results for the same body are identical. shape_paths.json has the protocol positions of
each dialect.
"""
