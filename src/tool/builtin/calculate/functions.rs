//! The names that the calculator knows.

use std::f64::consts;

use super::number::Number;

/// A function of the calculator.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// Its name, in lower case.
    pub name: &'static str,
    rule: Rule,
}

#[derive(Debug, Clone, Copy)]
enum Rule {
    /// Of one double.
    Real(fn(f64) -> f64),
    /// Of one number, to a whole one: integers are left as they are.
    Whole(fn(f64) -> f64),
    /// Of one number, without its sign.
    Abs,
    /// One of its arguments: whether the next is to be preferred to the best so far.
    Choice(fn(f64, f64) -> bool),
}

use Rule::{Abs, Choice, Real, Whole};

static FUNCTIONS: [(&str, Rule); 22] = [
    ("sqrt", Real(f64::sqrt)),
    ("cbrt", Real(f64::cbrt)),
    ("abs", Abs),
    ("exp", Real(f64::exp)),
    ("ln", Real(f64::ln)),
    ("log2", Real(f64::log2)),
    ("log10", Real(f64::log10)),
    ("sin", Real(f64::sin)),
    ("cos", Real(f64::cos)),
    ("tan", Real(f64::tan)),
    ("asin", Real(f64::asin)),
    ("acos", Real(f64::acos)),
    ("atan", Real(f64::atan)),
    ("sinh", Real(f64::sinh)),
    ("cosh", Real(f64::cosh)),
    ("tanh", Real(f64::tanh)),
    ("floor", Whole(f64::floor)),
    ("ceil", Whole(f64::ceil)),
    ("round", Whole(f64::round)),
    ("trunc", Whole(f64::trunc)),
    ("min", Choice(|best, next| next < best)),
    ("max", Choice(|best, next| next > best)),
];

static CONSTANTS: [(&str, f64); 4] = [("pi", consts::PI), ("π", consts::PI), ("tau", consts::TAU), ("e", consts::E)];

/// The function of that name, in any case.
#[must_use]
pub fn function(name: &str) -> Option<Function> {
    let found = FUNCTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(name, rule)| Function { name, rule: *rule })
}

/// The constant of that name, in any case.
#[must_use]
pub fn constant(name: &str) -> Option<Number> {
    let found = CONSTANTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| Number::Real(*value))
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    let constants = CONSTANTS.iter().map(|(name, _)| *name).filter(|name| name.is_ascii());
    FUNCTIONS.iter().map(|(name, _)| *name).chain(constants)
}

/// What to write instead of a name that is not known.
#[must_use]
pub fn advice(unknown: &str) -> String {
    let unknown = unknown.to_lowercase();
    if unknown == "log" {
        // Base e in programs, base 10 in schools: a wrong guess would be a wrong result that nobody notices.
        return "write ln, log2 or log10".to_owned();
    }
    let near = names().filter(|name| name.len() > 1).map(|name| (strsim::damerau_levenshtein(&unknown, name), name));
    match near.min() {
        Some((distance, name)) if distance <= unknown.len() / 3 => format!("did you mean {name}?"),
        _ => format!("known names are {}", names().collect::<Vec<_>>().join(", ")),
    }
}

impl Function {
    /// Its value.
    ///
    /// # Errors
    /// The wrong number of arguments, or a value that is no finite number.
    pub fn apply(self, args: &[Number]) -> Result<Number, String> {
        let name = self.name;
        let one = || match args {
            [arg] => Ok(*arg),
            _ => Err(format!("{name} takes 1 argument, not {}", args.len())),
        };
        match self.rule {
            Real(function) => {
                let arg = one()?;
                let value = function(arg.real());
                if value == f64::NEG_INFINITY {
                    return Err(format!("{name}({arg}) is not a real number"));
                }
                Number::finite(value, || format!("{name}({arg})"))
            }
            Whole(function) => Ok(match one()? {
                Number::Real(real) => Number::Real(function(real)),
                int => int,
            }),
            Abs => one().map(|arg| if arg.real() < 0.0 { arg.negated() } else { arg }),
            Choice(prefers) => args
                .iter()
                .copied()
                .reduce(|best, next| if prefers(best.real(), next.real()) { next } else { best })
                .ok_or_else(|| format!("{name} takes at least 1 argument")),
        }
    }
}
