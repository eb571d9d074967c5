//! The calculator's language, evaluated in one pass without recursion, so that nesting cannot exhaust the stack.
//!
//! Precedence from lowest to highest: `+ -`, `* / %`, the sign `-`, `^`. `^` is right-associative, the others are
//! left-associative. So `-2^2` is −4, `2^3^2` is 2⁹ and `2^-1` is a half, as in mathematics and Python (spreadsheets
//! differ). `%` is the remainder with the sign of its left operand. `**` means `^`, and `×`, `·`, `÷`, `−` and `π` have
//! their usual meaning. Multiplication needs an operator: `2 pi` is an error. Integers are exact up to 127 bits.

use super::functions::{self, Function};
use super::number::Number;

/// Evaluates an expression.
///
/// # Errors
/// Returns a message for the model: what is invalid and where, or why the value is not finite.
pub fn evaluate(text: &str) -> Result<Number, String> {
    let mut machine = Machine { text, at: 0, values: Vec::new(), pending: Vec::new(), wants_operand: true };
    while let Some((token, start)) = machine.next_token()? {
        if machine.wants_operand {
            machine.operand(token, start)?;
        } else {
            machine.operator(token, start)?;
        }
    }
    machine.finish()
}

#[derive(Debug, Clone, Copy)]
enum Token<'a> {
    Number(Number),
    Name(&'a str),
    Symbol(char),
}

/// Returns the length of the number in bytes: digits, dots, and an exponent if it has digits.
fn number_len(text: &str) -> usize {
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let mantissa = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let exponent = &text.as_bytes()[mantissa..];
    let sign = match exponent {
        [b'e' | b'E', b'+' | b'-', ..] => 2,
        [b'e' | b'E', ..] => 1,
        _ => return mantissa,
    };
    match digits(mantissa + sign) {
        0 => mantissa,
        digits => mantissa + sign + digits,
    }
}

fn number(literal: &str, text: &str, start: usize) -> Result<Number, String> {
    if let Ok(int) = literal.parse() {
        return Ok(Number::Int(int));
    }
    let shown = || toolpost_core::domain::json::shorten(literal, 40);
    let real =
        literal.parse().map_err(|_| format!("\"{}\" at {} is not a number", shown(), format_position(text, start)))?;
    Number::finite(real, shown)
}

/// An item on the operator stack, waiting for its right side.
#[derive(Debug, Clone, Copy)]
enum Pending {
    Binary(char),
    Negation,
    /// An open parenthesis at this byte.
    Open(usize),
    /// The open parenthesis of a function, and the number of values before its arguments.
    Arguments(Function, usize, usize),
}

/// The two stacks of Dijkstra's shunting-yard algorithm.
struct Machine<'a> {
    text: &'a str,
    /// The end of the last token, in bytes.
    at: usize,
    values: Vec<Number>,
    pending: Vec<Pending>,
    /// `true` if a number, a name or `(` must come next; `false` if an operator or `)` must.
    wants_operand: bool,
}

/// Returns the precedence of an operator, and `true` if it is right-associative.
fn precedence(operator: char) -> Option<(u8, bool)> {
    match operator {
        '+' | '-' => Some((1, false)),
        '*' | '/' | '%' => Some((2, false)),
        '^' => Some((4, true)),
        _ => None,
    }
}

/// Precedence of a sign: `-2^2` is `-(2^2)`, but `-2 * 3` is `(-2) * 3`.
const SIGN: u8 = 3;

impl<'a> Machine<'a> {
    /// Returns the next token and its start.
    fn next_token(&mut self) -> Result<Option<(Token<'a>, usize)>, String> {
        let rest = self.text[self.at..].trim_start();
        let start = self.text.len() - rest.len();
        let Some(first) = rest.chars().next() else { return Ok(None) };
        let (token, len) = if first.is_ascii_digit() || first == '.' {
            let len = number_len(rest);
            (Token::Number(number(&rest[..len], self.text, start)?), len)
        } else if first.is_alphabetic() || first == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Token::Name(&rest[..len]), len)
        } else if rest.starts_with("**") {
            (Token::Symbol('^'), 2)
        } else {
            let symbol = match first {
                '×' | '·' => '*',
                '÷' => '/',
                '−' => '-',
                other => other,
            };
            (Token::Symbol(symbol), first.len_utf8())
        };
        self.at = start + len;
        Ok(Some((token, start)))
    }

    fn operand(&mut self, token: Token<'a>, start: usize) -> Result<(), String> {
        match token {
            Token::Number(number) => self.value(number),
            Token::Name(name) => match (functions::constant(name), functions::function(name)) {
                (Some(constant), _) => self.value(constant),
                (None, Some(function)) => match self.next_token()? {
                    Some((Token::Symbol('('), open)) => {
                        self.pending.push(Pending::Arguments(function, self.values.len(), open));
                    }
                    _ => {
                        return Err(format!(
                            "{name} at {} needs parentheses: {name}(…)",
                            format_position(self.text, start)
                        ));
                    }
                },
                (None, None) => {
                    let name = toolpost_core::domain::json::shorten(name, 40);
                    let advice = functions::advice(&name);
                    return Err(format!("unknown name \"{name}\" at {}; {advice}", format_position(self.text, start)));
                }
            },
            Token::Symbol('(') => self.pending.push(Pending::Open(start)),
            Token::Symbol('-') => self.pending.push(Pending::Negation),
            Token::Symbol('+') => {}
            Token::Symbol(symbol) => {
                return Err(format!(
                    "a number is missing before \"{symbol}\" at {}",
                    format_position(self.text, start)
                ));
            }
        }
        Ok(())
    }

    fn value(&mut self, number: Number) {
        self.values.push(number);
        self.wants_operand = false;
    }

    fn operator(&mut self, token: Token<'a>, start: usize) -> Result<(), String> {
        let position = || format_position(self.text, start);
        match token {
            Token::Symbol(')') => match self.reduce(0)? {
                Some(Pending::Arguments(function, before, _)) => {
                    self.pending.pop();
                    let value = function.apply(&self.values[before..])?;
                    self.values.truncate(before);
                    self.values.push(value);
                }
                Some(_) => drop(self.pending.pop()),
                None => return Err(format!("\")\" at {} has no \"(\"", position())),
            },
            Token::Symbol(',') => match self.reduce(0)? {
                Some(Pending::Arguments(..)) => self.wants_operand = true,
                _ => return Err(format!("\",\" at {} is not between the arguments of a function", position())),
            },
            Token::Symbol(symbol) => match precedence(symbol) {
                Some((tightness, to_the_right)) => {
                    self.reduce(if to_the_right { tightness + 1 } else { tightness })?;
                    self.pending.push(Pending::Binary(symbol));
                    self.wants_operand = true;
                }
                None if symbol == '(' => return Err(format!("an operator is missing before \"(\" at {}", position())),
                None => return Err(format!("unknown symbol \"{symbol}\" at {}", position())),
            },
            Token::Number(_) | Token::Name(_) => {
                return Err(format!("an operator is missing at {}; to multiply, write *", position()));
            }
        }
        Ok(())
    }

    /// Applies pending operators of at least the given precedence, up to the last open parenthesis, which it returns.
    fn reduce(&mut self, tightness: u8) -> Result<Option<Pending>, String> {
        while let Some(last) = self.pending.last().copied() {
            let value = match last {
                Pending::Binary(operator) if precedence(operator).is_some_and(|(binds, _)| binds >= tightness) => {
                    let (right, left) = (self.operand_of(), self.operand_of());
                    left.apply(operator, right)?
                }
                Pending::Negation if SIGN >= tightness => self.operand_of().negated(),
                Pending::Binary(_) | Pending::Negation => return Ok(None),
                open => return Ok(Some(open)),
            };
            self.values.push(value);
            self.pending.pop();
        }
        Ok(None)
    }

    /// Pops an operand. An operator is pushed only after its operands, so the stack is not empty.
    fn operand_of(&mut self) -> Number {
        self.values.pop().unwrap_or(Number::Int(0))
    }

    fn finish(mut self) -> Result<Number, String> {
        if self.wants_operand {
            return Err("the expression ends where a number should follow".to_owned());
        }
        match self.reduce(0)? {
            Some(Pending::Open(at) | Pending::Arguments(_, _, at)) => {
                Err(format!("\"(\" at {} is never closed", format_position(self.text, at)))
            }
            _ => Ok(self.operand_of()),
        }
    }
}

/// Formats a position for people: in characters, from 1.
fn format_position(text: &str, at: usize) -> String {
    format!("character {}", text[..at].chars().count() + 1)
}

#[cfg(test)]
mod tests;
