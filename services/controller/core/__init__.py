"""What the controller decides: values in, values out, no clock, no I/O."""
