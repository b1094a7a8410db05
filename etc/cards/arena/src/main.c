#include "demo.h"

#include <stdio.h>
#include <stdlib.h>

void must(bool ok)
{
    if (!ok) {
        fputs("arena: a request that has to fit was refused\n", stderr);
        exit(EXIT_FAILURE);
    }
}

int main(void)
{
    demo_bump();
    demo_align();
    demo_room();
    demo_marks();
    demo_data();
    demo_server();
    demo_sizing();
    return EXIT_SUCCESS;
}
