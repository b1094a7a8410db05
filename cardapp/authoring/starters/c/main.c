#include <stdio.h>

/* Adds the numbers from 1 to limit. */
static int sum_to(int limit)
{
    int sum = 0;
    for (int number = 1; number <= limit; number++) {
        sum += number;
    }
    return sum;
}

int main(void)
{
    printf("%d\n", sum_to(4));
    return 0;
}
