//! Exact products and quotients of 256 bits: no input overflows, nothing is rounded twice.
//!
//! A limiter divides several times in each call, and nearly always numbers for which the machine's
//! own division does. A 128-bit one takes several times as long, so it is tried without first.

/// ⌊a·b·2^shift ÷ c⌋, `u128::MAX` when that does not fit. `c` must not be 0, nor `b·2^shift` overflow.
#[must_use]
#[inline]
pub fn mul_shift_div(a: u64, b: u128, shift: u32, c: u128) -> u128 {
    short_mul_shift_div(a, b, shift, c).unwrap_or_else(|| mul_div(a.into(), b << shift, c).0)
}

#[inline]
fn short_mul_shift_div(a: u64, b: u128, shift: u32, c: u128) -> Option<u128> {
    let (b, c) = (u64::try_from(b).ok()?, u64::try_from(c).ok()?);
    let product = a.checked_mul(b)?;
    if product.leading_zeros() >= shift {
        return Some(u128::from((product << shift) / c));
    }
    // p·2^s ÷ c = (p ÷ c)·2^s + (p mod c)·2^s ÷ c
    let (whole, rest) = (product / c, product % c);
    (c.leading_zeros() >= shift)
        .then(|| (u128::from(whole) << shift) + u128::from((rest << shift) / c))
}

/// ⌈a·b ÷ (c·2^shift)⌉, `u128::MAX` when that does not fit. `c` must not be 0, nor `c·2^shift`
/// overflow.
#[must_use]
#[inline]
pub fn mul_div_shift_ceil(a: u128, b: u128, c: u128, shift: u32) -> u128 {
    short_mul_div_shift_ceil(a, b, c, shift).unwrap_or_else(|| mul_div_ceil(a, b, c << shift))
}

#[inline]
fn short_mul_div_shift_ceil(a: u128, b: u128, c: u128, shift: u32) -> Option<u128> {
    let (a, b) = (u64::try_from(a).ok()?, u64::try_from(b).ok()?);
    let product = u128::from(a) * u128::from(b);
    // ⌈p ÷ (c·2^s)⌉ = ⌈⌈p ÷ 2^s⌉ ÷ c⌉
    let lost = product & ((1 << shift) - 1) != 0;
    let shifted = u64::try_from(product >> shift).ok()?.checked_add(u64::from(lost))?;
    Some(u128::from(shifted.div_ceil(u64::try_from(c).ok()?)))
}

/// ⌈a·b ÷ c⌉, `u128::MAX` when that does not fit. `c` must not be 0.
#[must_use]
pub fn mul_div_ceil(a: u128, b: u128, c: u128) -> u128 {
    let (quotient, exact) = mul_div(a, b, c);
    quotient.saturating_add(u128::from(!exact))
}

/// ⌊a·b ÷ c⌋ and whether that is exact.
#[cold]
fn mul_div(a: u128, b: u128, c: u128) -> (u128, bool) {
    match a.checked_mul(b) {
        Some(product) => {
            let quotient = product / c;
            (quotient, quotient * c == product)
        }
        None => wide_mul_div(a, b, c),
    }
}

/// The quotient and whether it is exact, by long division bit by bit: rare, so simple.
fn wide_mul_div(a: u128, b: u128, c: u128) -> (u128, bool) {
    let (mut rest, low) = full_mul(a, b);
    if rest >= c {
        return (u128::MAX, false);
    }
    let mut quotient = 0u128;
    for bit in (0..128).rev() {
        let carry = rest >> 127;
        rest = (rest << 1) | ((low >> bit) & 1);
        quotient <<= 1;
        if carry == 1 || rest >= c {
            rest = rest.wrapping_sub(c);
            quotient |= 1;
        }
    }
    (quotient, rest == 0)
}

/// The 256-bit product as (high, low), from four 64-bit products.
fn full_mul(a: u128, b: u128) -> (u128, u128) {
    const LOW: u128 = u64::MAX as u128;
    let (a_high, a_low, b_high, b_low) = (a >> 64, a & LOW, b >> 64, b & LOW);
    let low = a_low * b_low;
    let middle = a_high * b_low + (low >> 64);
    let other = a_low * b_high + (middle & LOW);
    (a_high * b_high + (middle >> 64) + (other >> 64), (other << 64) | (low & LOW))
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigUint;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_big_integers(
            a in any::<u128>(), b in any::<u128>(), c in 1..=u128::MAX,
            a_shift in 0..128u32, b_shift in 0..128u32, c_shift in 0..128u32, shift in 0..=32u32,
        ) {
            let (a, b, c) = (a >> a_shift, b >> b_shift, (c >> c_shift).max(1));
            let fits = |value: BigUint| u128::try_from(value).unwrap_or(u128::MAX);
            let product = BigUint::from(a) * b;
            let ceil = fits((&product + (c - 1)) / c);
            prop_assert_eq!(mul_div_ceil(a, b, c), ceil);

            let (short_a, b, c) = (a as u64, b >> shift, (c >> shift).max(1));
            let floor = fits(((BigUint::from(short_a) * b) << shift) / c);
            prop_assert_eq!(mul_shift_div(short_a, b, shift, c), floor);
            let divisor = BigUint::from(c) << shift;
            let ceil = fits((BigUint::from(a) * b + (&divisor - 1u32)) / &divisor);
            prop_assert_eq!(mul_div_shift_ceil(a, b, c, shift), ceil);
        }
    }
}
