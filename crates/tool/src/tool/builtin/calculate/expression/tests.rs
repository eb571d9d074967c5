use super::evaluate;

fn shown(text: &str) -> String {
    evaluate(text).map_or_else(|error| format!("error: {error}"), |number| number.to_json().to_string())
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(shown(text), *expected, "{text}");
    }
}

#[test]
fn operators_bind_as_in_mathematics() {
    check(&[
        ("2 + 3 * 4", "14"),
        ("(2 + 3) * 4", "20"),
        ("10 - 4 - 3", "3"),
        ("2 * 6 / 4 * 2", "6"),
        ("7 - 7 % 4", "4"),
        ("-7 % 4", "-3"),
        ("-2^2", "-4"),
        ("(-2)^2", "4"),
        ("2^3^2", "512"),
        ("2^-1", "0.5"),
        ("2^-3^2", "0.001953125"),
        ("2^-2*8", "2"),
        ("-2 * -3 - -4", "10"),
        ("2 * -3^2", "-18"),
        ("1 + +2", "3"),
        ("--2", "2"),
        ("2 ** 10", "1024"),
        ("6 × 7 − 4 ÷ 2 · 1", "40"),
        ("\t1\n+\u{a0}1", "2"),
    ]);
}

#[test]
fn number_notations_are_accepted() {
    check(&[
        ("7.0", "7"),
        (".5 + 5.", "5.5"),
        ("1e3 + 1E+3 + 1e-1", "2000.1"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("0.1 + 0.2 - 0.3", "5.551115123125783e-17"),
        ("-0.0", "0"),
        ("1/3", "0.3333333333333333"),
        ("1.5.2", "error: \"1.5.2\" at character 1 is not a number"),
        ("1 + .", "error: \".\" at character 5 is not a number"),
        ("1e999", "error: 1e999 is beyond the largest number, about 1.8e308"),
        ("1,000 + 1", "error: \",\" at character 2 is not between the arguments of a function"),
    ]);
}

#[test]
fn integers_stay_exact_where_doubles_would_round() {
    check(&[
        ("123456789 * 987654321", "121932631112635269"),
        ("2^63 - 1", "9223372036854775807"),
        ("2^64 - 1", "18446744073709551615"),
        ("(2^100 + 1) % 1000", "377"),
        ("2^100 / 2^99", "2"),
        ("2^64", "1.8446744073709552e+19"),
        ("-(2^63)", "-9223372036854775808"),
        ("-2^127 - 1 + 0.5", "-1.7014118346046923e+38"),
        ("10^400", "error: 10 ^ 400 is beyond the largest number, about 1.8e308"),
    ]);
}

#[test]
fn functions_and_constants_are_known_in_any_case() {
    check(&[
        ("sqrt(16) + abs(-3)", "7"),
        ("max(1, min(5, 3, 4), -2) * 2", "6"),
        ("max(1, 2) + max(3, 4)", "6"),
        ("round(2.5) + floor(-0.5) + ceil(0.1) + trunc(-1.9)", "2"),
        ("ln(e) + log10(1000) + log2(8) + exp(0)", "8"),
        ("SIN(0) + cos(PI) + Tan(0)", "-1"),
        ("cos(π) + tau / pi", "1"),
        ("e", "2.718281828459045"),
        ("2e", "error: an operator is missing at character 2; to multiply, write *"),
    ]);
}

#[test]
fn non_finite_values_are_errors() {
    check(&[
        ("1/0", "error: 1 / 0 is a division by zero"),
        ("1 + 0 / (2 - 2.0)", "error: 0 / 0 is a division by zero"),
        ("5 % 0", "error: 5 % 0 is a division by zero"),
        ("0^-1", "error: 0 ^ (-1) is a division by zero"),
        ("0^0", "1"),
        ("1 / (1e308 * 10)", "error: 1e+308 * 10 is beyond the largest number, about 1.8e308"),
        ("sqrt(-1)", "error: sqrt(-1) is not a real number"),
        ("(-8)^(1/3)", "error: (-8) ^ 0.3333333333333333 is not a real number"),
        ("ln(0)", "error: ln(0) is not a real number"),
        ("asin(2)", "error: asin(2) is not a real number"),
    ]);
}

#[test]
fn syntax_errors_have_a_position() {
    check(&[
        ("", "error: the expression ends where a number should follow"),
        (" 1 + ", "error: the expression ends where a number should follow"),
        ("(1 + 2", "error: \"(\" at character 1 is never closed"),
        ("1 + 2)", "error: \")\" at character 6 has no \"(\""),
        ("()", "error: a number is missing before \")\" at character 2"),
        ("max()", "error: a number is missing before \")\" at character 5"),
        ("max(1,)", "error: a number is missing before \")\" at character 7"),
        ("sqrt(1, 2)", "error: sqrt takes 1 argument, not 2"),
        ("sqrt 4", "error: sqrt at character 1 needs parentheses: sqrt(…)"),
        ("1 + sin", "error: sin at character 5 needs parentheses: sin(…)"),
        ("pi(2)", "error: an operator is missing before \"(\" at character 3"),
        ("2 (3)", "error: an operator is missing before \"(\" at character 3"),
        ("2 3", "error: an operator is missing at character 3; to multiply, write *"),
        ("2 * / 3", "error: a number is missing before \"/\" at character 5"),
        ("5!", "error: unknown symbol \"!\" at character 2"),
        ("(1, 2)", "error: \",\" at character 3 is not between the arguments of a function"),
    ]);
    assert!(shown("2 + foo(1)").starts_with("error: unknown name \"foo\" at character 5; known names are sqrt, "));
    check(&[
        ("sqr(2)", "error: unknown name \"sqr\" at character 1; did you mean sqrt?"),
        ("log(100)", "error: unknown name \"log\" at character 1; write ln, log2 or log10"),
    ]);
}

#[test]
fn deep_nesting_is_evaluated() {
    let many = 100_000;
    let around = |open: &str, close: &str| format!("{}1{}", open.repeat(many), close.repeat(many));
    // A thread of the test harness has a stack of 2 MiB, like the threads of the service.
    for (text, expected) in [
        (around("(", ")"), "1"),
        (around("-", ""), "1"),
        (around("-(", ")"), "1"),
        (around("sqrt(", ")"), "1"),
        (around("1^", ""), "1"),
        (around("", "+1"), "100001"),
    ] {
        assert_eq!(shown(&text), expected, "{}…", &text[..6]);
    }
    assert_eq!(shown(&"(".repeat(many)), "error: the expression ends where a number should follow");
    assert_eq!(shown(&around("(", "")), format!("error: \"(\" at character {many} is never closed"));
}

proptest::proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "[-+*/%^().,0-9e \\PCa-z]{0,60}") {
        let _ = evaluate(&text);
    }

    #[test]
    fn sums_of_integers_are_exact(a in -1_000_000_000_000_i64..1_000_000_000_000, b in -1_000_000_i64..1_000_000) {
        assert_eq!(shown(&format!("({a}) * ({b}) - ({b})")), (i128::from(a) * i128::from(b) - i128::from(b)).to_string());
    }
}
