"""A soak of real processes on a real folder: killed, stopped and continued, on a disk that runs full."""
