/* The demonstrations, one file for each task of the card. */
#ifndef DEMO_H
#define DEMO_H

#include <stdbool.h>

void demo_bump(void);
void demo_align(void);
void demo_room(void);
void demo_marks(void);
void demo_data(void);
void demo_server(void);
void demo_sizing(void);

/* Ends the program if `ok` is false. The demonstrations know what fits; only
 * where a refusal is the point do they look at the answer themselves. */
void must(bool ok);

#endif
