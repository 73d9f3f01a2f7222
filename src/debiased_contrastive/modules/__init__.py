"""The objectives behind the calls that training loops already make."""
