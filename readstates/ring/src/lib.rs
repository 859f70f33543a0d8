//! Slots, epochs and who owns what. Pure: no IO, no clock, no runtime.
