"""Job plugins: what ``spec.plugins`` of a job adds to its pods, and the objects that it needs beside them.

Pure, and the same as in Volcano: names, variables, ports, files, arguments and their defaults. What differs
is said where it differs. :mod:`.registry` knows them all.
"""
