//! proctor-recipes.
