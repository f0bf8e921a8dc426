//! proctor-native.
