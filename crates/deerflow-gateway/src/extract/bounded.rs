//! Numbers with limits.

use serde::{Deserialize, Deserializer, Serialize, de};

/// An integer from `MIN` to `MAX`, from JSON or from a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Bounded<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Bounded<MIN, MAX> {
    /// A constant of the program.
    pub(crate) const fn new(value: i64) -> Self {
        assert!(MIN <= value && value <= MAX, "out of bounds");
        Self(value)
    }
    /// The number with its sign.
    pub(crate) fn signed(self) -> i32 {
        i32::try_from(self.0).unwrap_or(0)
    }
    /// The number, for a port that counts in `u64`.
    pub(crate) fn wide(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }
    /// The number, for a port that counts in `u32`.
    pub(crate) fn get(self) -> u32 {
        // MIN is never negative where this is asked.
        u32::try_from(self.0).unwrap_or(0)
    }
}

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Bounded<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = i64;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("i64")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<i64, E> {
                Ok(value)
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<i64, E> {
                Ok(i64::try_from(value).unwrap_or(i64::MAX))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<i64, E> {
                value
                    .parse()
                    .map_err(|_| E::custom("Input should be a valid integer, unable to parse string as an integer"))
            }
        }
        let value = deserializer.deserialize_any(Visitor)?;
        if value < MIN {
            return Err(de::Error::custom(format!("Input should be greater than or equal to {MIN}")));
        }
        if value > MAX {
            return Err(de::Error::custom(format!("Input should be less than or equal to {MAX}")));
        }
        Ok(Self(value))
    }
}
