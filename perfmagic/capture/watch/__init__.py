"""Which line of the user's code each thread was on, and when: in any function, file and thread."""
