//! What is shed, what is repaired, what is journalled.
