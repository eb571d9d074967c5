//! What an evaluation may cost: steps and memory, counted for each operation and each element.
//!
//! [`instrument`](super::instrument) puts calls of the functions of this file around the parts of an expression whose cost
//! depends on their values.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cel::common::types::{CelBool, CelBytes, CelInt, CelList, CelMap, CelString};
use cel::common::value::{CowVal, Val};
use cel::{Context, DeclarationError, ExecutionError, FunctionContext};

use super::pattern::{self, Pattern};

/// Counts one operation on a value, which may look at all of it.
pub(super) const OPERAND: &str = "@operand";
/// Counts one operation that looks at the length of a value.
pub(super) const LENGTH: &str = "@length";
/// Counts the memory of a new value.
pub(super) const STORED: &str = "@stored";
/// Counts one element of a macro.
pub(super) const ELEMENT: &str = "@element";
/// Matches a text against a pattern that is compiled with the expression.
pub(super) const MATCHES: &str = "@matches";
/// Matches a text against a pattern that is known only now.
pub(super) const MATCHES_TEXT: &str = "@matches_text";

/// Bytes of a text that count as one step.
const BYTES_A_STEP: usize = 64;
/// Memory of a value of a list or map without its text, in bytes.
const VALUE_BYTES: u64 = 48;
/// Number of compiled patterns that an evaluation keeps.
const KEPT_PATTERNS: usize = 16;

/// Bounds on the evaluation of the expressions for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of steps: operations, elements, and pieces of text.
    pub max_steps: u64,
    /// Maximum memory of new values, in bytes.
    pub max_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { max_steps: 1_000_000, max_bytes: 16 * 1024 * 1024 }
    }
}

/// The cost of an evaluation so far. A bound that is exceeded once stays exceeded, because `||` and macros can hide the error.
#[derive(Debug)]
pub(super) struct Meter {
    bounds: Bounds,
    steps: AtomicU64,
    bytes: AtomicU64,
    is_exceeded: AtomicBool,
    /// The patterns of the expression in evaluation.
    patterns: Mutex<Arc<[Pattern]>>,
    /// Patterns that were compiled during the evaluation.
    compiled: Mutex<Vec<(String, Arc<Pattern>)>>,
}

impl Meter {
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            steps: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            is_exceeded: AtomicBool::new(false),
            patterns: Mutex::new(Arc::new([])),
            compiled: Mutex::default(),
        }
    }

    /// Sets the patterns of the next expression.
    pub fn use_patterns(&self, patterns: &Arc<[Pattern]>) {
        if !patterns.is_empty() {
            patterns.clone_into(&mut self.patterns.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Returns which bound is exceeded, if one is.
    pub fn exceeded(&self) -> Option<String> {
        let Bounds { max_steps, max_bytes } = self.bounds;
        self.is_exceeded.load(Ordering::Relaxed).then(|| match self.steps.load(Ordering::Relaxed) > max_steps {
            true => format!("the expressions take more than {max_steps} steps"),
            false => format!("the expressions take more than {max_bytes} bytes of memory"),
        })
    }

    fn add(&self, steps: u64, bytes: u64) -> Result<(), ExecutionError> {
        let Bounds { max_steps, max_bytes } = self.bounds;
        let add = |count: &AtomicU64, more: u64| {
            let sum = count.load(Ordering::Relaxed).saturating_add(more);
            count.store(sum, Ordering::Relaxed);
            sum
        };
        if add(&self.steps, steps) > max_steps || add(&self.bytes, bytes) > max_bytes {
            self.is_exceeded.store(true, Ordering::Relaxed);
        }
        match self.exceeded() {
            Some(reason) => Err(ExecutionError::function_error("policy", reason)),
            None => Ok(()),
        }
    }

    /// Counts an operation that may look at all of a value.
    fn operand(&self, value: &dyn Val) -> Result<(), ExecutionError> {
        let mut size = Size::default();
        size.measure(value, self.left());
        self.add(1 + size.steps, 0)
    }

    fn length(&self, value: &dyn Val) -> Result<(), ExecutionError> {
        let text = value.downcast_ref::<CelString<'_>>().map_or(0, |text| text.inner().len());
        self.add(1 + steps_of(text), 0)
    }

    /// Counts the memory of a new value.
    fn stored(&self, value: &dyn Val) -> Result<(), ExecutionError> {
        let mut size = Size::default();
        size.measure(value, self.left());
        self.add(1 + size.steps, size.bytes)
    }

    /// Returns the steps that are left, after which a measurement need not go on.
    fn left(&self) -> u64 {
        self.bounds.max_steps.saturating_sub(self.steps.load(Ordering::Relaxed))
    }

    fn matches(&self, pattern: &Pattern, text: &CelString<'_>) -> Result<bool, ExecutionError> {
        self.add(1 + pattern.steps_for(text.inner().len()), 0)?;
        Ok(pattern.is_match(text.inner()))
    }

    /// Matches a text against the pattern of this number in the expression.
    fn matches_known(&self, number: usize, text: &CelString<'_>) -> Result<bool, ExecutionError> {
        let patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let pattern = patterns.get(number).ok_or_else(|| failed("unknown pattern"))?;
        self.matches(pattern, text)
    }

    /// Matches a text against a pattern that is compiled once in an evaluation.
    fn matches_text(&self, text: &CelString<'_>, source: &str) -> Result<bool, ExecutionError> {
        let kept = |compiled: &Vec<(String, Arc<Pattern>)>| {
            compiled.iter().find(|(known, _)| known == source).map(|(_, pattern)| pattern.clone())
        };
        let known = kept(&self.compiled.lock().unwrap_or_else(PoisonError::into_inner));
        let pattern = match known {
            Some(pattern) => pattern,
            None => {
                self.add(pattern::COMPILE_STEPS, 0)?;
                let pattern = Arc::new(Pattern::of_value(source).map_err(|message| failed(&message))?);
                let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
                if compiled.len() >= KEPT_PATTERNS {
                    compiled.remove(0);
                }
                compiled.push((source.to_owned(), pattern.clone()));
                pattern
            }
        };
        self.matches(&pattern, text)
    }
}

/// The size of a value.
#[derive(Default)]
struct Size {
    steps: u64,
    bytes: u64,
}

impl Size {
    /// Adds the size of a value. Stops beyond `left` steps.
    fn measure(&mut self, value: &dyn Val, left: u64) {
        if self.steps > left {
            return;
        }
        self.bytes += VALUE_BYTES;
        if let Some(text) = value.downcast_ref::<CelString<'_>>() {
            let length = text.inner().len();
            self.steps += steps_of(length);
            // A borrowed text is not copied with its value.
            self.bytes += if text.as_borrowed().is_some() { 0 } else { length as u64 };
        } else if let Some(bytes) = value.downcast_ref::<CelBytes<'_>>() {
            let length = bytes.inner().len();
            self.steps += steps_of(length);
            self.bytes += if bytes.as_borrowed().is_some() { 0 } else { length as u64 };
        } else if let Some(list) = value.downcast_ref::<CelList<'_>>() {
            self.steps += 1;
            list.inner().iter().for_each(|item| self.item(&**item, left));
        } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
            self.steps += 1;
            for (key, item) in map.inner() {
                self.item(key.inner(), left);
                self.item(&**item, left);
            }
        }
    }

    fn item(&mut self, item: &dyn Val, left: u64) {
        self.steps += 1;
        self.measure(item, left);
    }
}

fn steps_of(bytes: usize) -> u64 {
    (bytes / BYTES_A_STEP) as u64
}

fn failed(message: &str) -> ExecutionError {
    ExecutionError::function_error("matches", message)
}

/// A function of an expression.
type Function =
    Box<dyn for<'c, 'v> Fn(&mut FunctionContext<'c, 'v>) -> Result<CowVal<'c, 'v>, ExecutionError> + Send + Sync>;

/// Returns a function that counts its last argument and returns it.
fn counting(meter: &Arc<Meter>, count: fn(&Meter, &dyn Val) -> Result<(), ExecutionError>) -> Function {
    let meter = meter.clone();
    Box::new(move |call| {
        let value = call.args.pop().ok_or_else(|| ExecutionError::invalid_argument_count(1, 0))?;
        count(&meter, &*value)?;
        Ok(value)
    })
}

/// Returns a function that counts an element of a macro: the steps of its body, and the element, which is copied into the
/// variable of the macro. It returns its last argument.
fn element(meter: &Arc<Meter>) -> Function {
    let meter = meter.clone();
    Box::new(move |call| {
        let value = call.args.pop().ok_or_else(|| ExecutionError::invalid_argument_count(3, 0))?;
        let body = call.args.first().and_then(|body| body.downcast_ref::<CelInt>());
        let body = body.map_or(1, |body| body.inner().unsigned_abs());
        meter.add(body, 0)?;
        if let Some(element) = call.args.get(1) {
            meter.operand(&**element)?;
        }
        Ok(value)
    })
}

fn matching(meter: &Arc<Meter>) -> Function {
    let meter = meter.clone();
    Box::new(move |call| {
        let number = call.args.first().and_then(|number| number.downcast_ref::<CelInt>());
        let number = number.and_then(|number| usize::try_from(*number.inner()).ok());
        let text = call.args.get(1).and_then(|text| text.downcast_ref::<CelString<'_>>());
        let (Some(number), Some(text)) = (number, text) else { return Err(failed("needs a string")) };
        meter.matches_known(number, text).map(|matches| CowVal::owned(CelBool::from(matches)))
    })
}

fn matching_text(meter: &Arc<Meter>) -> Function {
    let meter = meter.clone();
    Box::new(move |call| {
        let text = |index: usize| call.args.get(index).and_then(|text| text.downcast_ref::<CelString<'_>>());
        let (Some(text), Some(pattern)) = (text(0), text(1)) else { return Err(failed("needs two strings")) };
        meter.matches_text(text, pattern.inner()).map(|matches| CowVal::owned(CelBool::from(matches)))
    })
}

/// Declares the functions that count.
///
/// # Errors
/// Returns an error if the environment has a function of one of the names.
pub(super) fn declare(context: &mut Context<'_, '_>, meter: &Arc<Meter>) -> Result<(), DeclarationError> {
    let mut add = |name: &str, function: Function| context.add_function(name, function);
    add(OPERAND, counting(meter, Meter::operand))?;
    add(LENGTH, counting(meter, Meter::length))?;
    add(STORED, counting(meter, Meter::stored))?;
    add(ELEMENT, element(meter))?;
    add(MATCHES, matching(meter))?;
    add(MATCHES_TEXT, matching_text(meter))
}
