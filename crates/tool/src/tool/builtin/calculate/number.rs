//! Numbers of the calculator: integers are exact as long as possible, all other numbers are doubles.

use std::fmt;

use serde_json::Value;

/// A finite number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An exact integer.
    Int(i128),
    /// A double (IEEE 754), never infinite or NaN.
    Real(f64),
}

use Number::{Int, Real};

/// Whole doubles below this (2⁵³) are shown as integers; a larger double represents a range of integers.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// Returns the number as a double, rounded if it has more than 53 bits.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "the rounding is intended")]
    pub fn real(self) -> f64 {
        match self {
            Int(int) => int as f64,
            Real(real) => real,
        }
    }

    /// Creates a number from a finite double. `what` returns the computed expression for the error message.
    ///
    /// # Errors
    /// Returns a message if the double is infinite or NaN.
    pub fn finite(real: f64, what: impl FnOnce() -> String) -> Result<Self, String> {
        if real.is_nan() {
            Err(format!("{} is not a real number", what()))
        } else if real.is_infinite() {
            Err(format!("{} is beyond the largest number, about 1.8e308", what()))
        } else {
            Ok(Real(real))
        }
    }

    /// Converts to a JSON number: an integer if the value is whole and fits 64 bits, else a double.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
    pub fn to_json(self) -> Value {
        match self {
            Int(int) => match (i64::try_from(int), u64::try_from(int)) {
                (Ok(int), _) => int.into(),
                (_, Ok(int)) => int.into(),
                _ => self.real().into(),
            },
            Real(real) if real.fract() == 0.0 && real.abs() < EXACT => (real as i64).into(),
            Real(real) => real.into(),
        }
    }

    /// Returns `-self`.
    #[must_use]
    pub fn negated(self) -> Self {
        match self {
            Int(int) => int.checked_neg().map_or(Real(-self.real()), Int),
            Real(real) => Real(-real),
        }
    }

    /// Returns `self operator other`.
    ///
    /// # Errors
    /// Returns a message for a division by zero, or if the result is not a finite number.
    pub fn apply(self, operator: char, other: Self) -> Result<Self, String> {
        let shown = |number: Self| if number.real() < 0.0 { format!("({number})") } else { number.to_string() };
        let what = || format!("{} {operator} {}", shown(self), shown(other));
        let (a, b) = (self.real(), other.real());
        if matches!(operator, '/' | '%') && b == 0.0 || operator == '^' && a == 0.0 && b < 0.0 {
            return Err(format!("{} is a division by zero", what()));
        }
        if let (Int(a), Int(b)) = (self, other)
            && let Some(exact) = exact_integer(a, operator, b)
        {
            return Ok(Int(exact));
        }
        let real = match operator {
            '+' => a + b,
            '-' => a - b,
            '*' => a * b,
            '/' => a / b,
            '%' => a % b,
            _ => a.powf(b),
        };
        Self::finite(real, what)
    }
}

/// Computes the result as an integer, or returns `None` if it is not whole or too large.
fn exact_integer(a: i128, operator: char, b: i128) -> Option<i128> {
    match operator {
        '+' => a.checked_add(b),
        '-' => a.checked_sub(b),
        '*' => a.checked_mul(b),
        '/' if a.checked_rem(b)? == 0 => a.checked_div(b),
        '%' => a.checked_rem(b),
        '^' => a.checked_pow(u32::try_from(b).ok()?),
        _ => None,
    }
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Int(int) => int.fmt(formatter),
            Real(_) => self.to_json().fmt(formatter),
        }
    }
}
