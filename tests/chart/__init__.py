"""The chart, the image and the scaling recipes."""
