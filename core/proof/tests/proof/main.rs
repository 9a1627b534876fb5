//! What is proven about frames, beside an oracle for instructions and brute force for frames.

mod anything;
mod doubt;
mod ends;
mod flow;
mod follow;
mod frames;
mod programs;
mod rewrite;
mod sites;
