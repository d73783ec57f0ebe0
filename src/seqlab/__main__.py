"""`python -m seqlab` is the command `seqlab`."""

from seqlab.cli import main

main()
