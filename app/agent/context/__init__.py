"""What the model is shown, from the records to the messages of one call."""
