/// Adds the numbers from 1 to limit.
fn sum_to(limit: i32) -> i32 {
    let mut sum = 0;
    for number in 1..=limit {
        sum += number;
    }
    return sum;
}

fn main() {
    println!("{}", sum_to(4));
}
