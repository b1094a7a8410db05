#include <iostream>

namespace sums {

// Adds the numbers from 1 to limit.
int sum_to(int limit)
{
    int sum = 0;
    for (int number = 1; number <= limit; number++) {
        sum += number;
    }
    return sum;
}

} // namespace sums

int main()
{
    std::cout << sums::sum_to(4) << '\n';
    return 0;
}
