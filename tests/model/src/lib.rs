//! The protocol between nodes, workers and the database, explored in every order of its steps.
//!
//! Each rule of the model names the function that implements it. A rule that is left out must lead to the fault that it prevents, which
//! shows that the exploration can find it. `TOOLPOST_CHAOS=long` explores a larger world.

#[cfg(test)]
mod protocol;
#[cfg(test)]
mod state;
#[cfg(test)]
mod tests;
