/*
 * Tokens to a value: a recursive-descent parser that climbs precedence and evaluates as it goes.
 *
 *     expression = operand { operator expression }
 *     operand    = NUMBER | "-" expression | "(" expression ")"
 *     operator   = "+" | "-" | "*" | "/" | "^"
 *
 * The grammar alone does not say how 1+2*3 or 8-3-2 are to be read. Precedence and associativity
 * decide that; both are in one table in parser.c.
 *
 * Values are 32-bit integers. Division drops the fraction, as C does: 7/2 is 3, -7/2 is -3.
 */
#ifndef CALC_PARSER_H
#define CALC_PARSER_H

#include <stdint.h>

#include "token.h"

enum status {
    STATUS_OK,
    STATUS_UNKNOWN_CHARACTER,
    STATUS_NUMBER_TOO_LARGE,
    STATUS_OPERAND_EXPECTED,
    STATUS_OPERATOR_EXPECTED, /* an operand is complete, yet neither an operator nor the end follows */
    STATUS_CLOSE_EXPECTED,
    STATUS_DIVISION_BY_ZERO,
    STATUS_NEGATIVE_EXPONENT,
    STATUS_OVERFLOW,
    STATUS_TOO_DEEP
};

struct outcome {
    enum status status;
    int32_t value; /* 0 unless the status is STATUS_OK */
    int column;    /* of the first error, 0 without one; an operator's own column if its result is at fault */
    int deepest;   /* how many calls of parse_expression() were open at once */
};

/*
 * The two functions in which the editions of this program differ. The first edition was shipped
 * and came back with complaints; it is kept so that both can be run side by side.
 */
struct edition {
    struct token (*read_token)(struct lexer *lexer);
    int (*right_minimum)(enum token_kind operator);
};

extern const struct edition first_edition;
extern const struct edition current_edition;

struct outcome evaluate(const char *text, const struct edition *edition);

/* What a status means, for people: no capital letter, no full stop. */
const char *status_message(enum status status);

#endif
