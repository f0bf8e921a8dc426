//! Evaluates constant strings, which may consist of several parts.

use ruff_python_ast::{Expr, ExprFString, FStringPart, InterpolatedStringElement, Operator};

/// Maximum nesting of concatenations. Code written by hand stays below this.
const MAX_DEPTH: usize = 64;

/// Functions that join the parts of a path.
const PATH_JOIN_FUNCTIONS: [&str; 5] = ["join", "joinpath", "Path", "PurePath", "PosixPath"];

/// Whether an expression is a single string or bytes literal.
pub(super) fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::StringLiteral(_) | Expr::BytesLiteral(_))
}

/// Returns the string that an expression always evaluates to. The expression may be a literal or
/// consist of parts that are added, joined or formatted.
pub(super) fn constant_string(expr: &Expr) -> Option<String> {
    constant_string_at_depth(expr, MAX_DEPTH)
}

fn constant_string_at_depth(expr: &Expr, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    match expr {
        Expr::StringLiteral(literal) => Some(literal.value.to_str().to_owned()),
        Expr::BytesLiteral(literal) => Some(literal.value.bytes().map(char::from).collect()),
        Expr::BinOp(sum) if sum.op == Operator::Add => {
            let left = constant_string_at_depth(&sum.left, depth)?;
            Some(left + &constant_string_at_depth(&sum.right, depth)?)
        }
        Expr::FString(text) => format_f_string(text, depth, constant_string_at_depth),
        Expr::Call(call) => {
            let Expr::Attribute(function) = &*call.func else { return None };
            let [pieces] = &*call.arguments.args else { return None };
            if function.attr.as_str() != "join" {
                return None;
            }
            let between = constant_string_at_depth(&function.value, depth)?;
            let pieces: &[Expr] = match pieces {
                Expr::List(list) => &list.elts,
                Expr::Tuple(tuple) => &tuple.elts,
                _ => return None,
            };
            let pieces: Option<Vec<String>> =
                pieces.iter().map(|piece| constant_string_at_depth(piece, depth)).collect();
            Some(pieces?.join(&between))
        }
        _ => None,
    }
}

/// Returns the text of an f-string, with each of its expressions evaluated by `evaluate`.
fn format_f_string(
    text: &ExprFString,
    depth: usize,
    evaluate: fn(&Expr, usize) -> Option<String>,
) -> Option<String> {
    let mut whole = String::new();
    for part in text.value.iter() {
        match part {
            FStringPart::Literal(literal) => whole.push_str(&literal.value),
            FStringPart::FString(part) => {
                for element in part.elements.iter() {
                    match element {
                        InterpolatedStringElement::Literal(literal) => {
                            whole.push_str(&literal.value);
                        }
                        InterpolatedStringElement::Interpolation(value) => {
                            whole.push_str(&evaluate(&value.expression, depth)?);
                        }
                    }
                }
            }
        }
    }
    Some(whole)
}

/// Returns the string that an expression evaluates to, with `{}` for each part that is not
/// constant. Also supports paths that are joined from parts.
pub(super) fn constant_template(expr: &Expr) -> String {
    template_at_depth(expr, MAX_DEPTH).unwrap_or_default()
}

fn template_at_depth(expr: &Expr, depth: usize) -> Option<String> {
    let known = depth.checked_sub(1).and_then(|depth| match expr {
        Expr::BinOp(sum) if matches!(sum.op, Operator::Add | Operator::Div) => {
            let between = if sum.op == Operator::Div { "/" } else { "" };
            let left = template_at_depth(&sum.left, depth)?;
            Some(left + between + &template_at_depth(&sum.right, depth)?)
        }
        Expr::FString(text) => format_f_string(text, depth, template_at_depth),
        Expr::Call(call) => {
            let function = match &*call.func {
                Expr::Attribute(function) => function.attr.as_str(),
                Expr::Name(function) => function.id.as_str(),
                _ => return None,
            };
            if !PATH_JOIN_FUNCTIONS.contains(&function) {
                return None;
            }
            let parts = call.arguments.args.iter().map(|part| template_at_depth(part, depth));
            Some(parts.collect::<Option<Vec<String>>>()?.join("/"))
        }
        _ => constant_string_at_depth(expr, depth),
    });
    Some(known.unwrap_or_else(|| "{}".to_owned()))
}

/// Returns a constant prefix of the string that an expression evaluates to.
pub(super) fn constant_prefix(expr: &Expr) -> Option<String> {
    prefix_at_depth(expr, MAX_DEPTH)
}

fn prefix_at_depth(expr: &Expr, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    if let Some(text) = constant_string(expr) {
        return Some(text);
    }
    match expr {
        Expr::BinOp(sum) => prefix_at_depth(&sum.left, depth),
        Expr::FString(text) => match text.value.iter().next()? {
            FStringPart::Literal(literal) => Some(literal.value.to_string()),
            FStringPart::FString(part) => match part.elements.iter().next()? {
                InterpolatedStringElement::Literal(literal) => Some(literal.value.to_string()),
                InterpolatedStringElement::Interpolation(value) => {
                    prefix_at_depth(&value.expression, depth)
                }
            },
        },
        Expr::Call(call) => match &*call.func {
            Expr::Attribute(function) if function.attr.as_str() == "format" => {
                prefix_at_depth(&function.value, depth)
            }
            _ => None,
        },
        _ => None,
    }
}
