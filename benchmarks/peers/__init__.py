"""Other people's libraries, made to do what seqlab does, so that both can be timed side by side."""
