#include "parser.h"

#include <stdlib.h>

/* Every level costs stack, and the text decides how many there are: without a limit it could crash us. */
#define DEPTH_LIMIT 32

struct parser {
    struct lexer lexer;
    struct token lookahead; /* read, but not used yet: all that a decision may be based on */
    const struct edition *edition;
    struct outcome outcome;
    int depth; /* calls of parse_expression() that are open now */
};

/* The higher, the tighter. SIGN is the minus before an operand; it has no row in the table below. */
enum { LEVEL_NONE, LEVEL_SUM, LEVEL_PRODUCT, LEVEL_SIGN, LEVEL_POWER };

enum associativity { LEFT, RIGHT };

/* A kind without a row has level LEVEL_NONE: it is no binary operator and ends any expression. */
static const struct {
    int level;
    enum associativity associativity;
} operators[TOKEN_KIND_COUNT] = {
    [TOKEN_PLUS] = { LEVEL_SUM, LEFT },
    [TOKEN_MINUS] = { LEVEL_SUM, LEFT },
    [TOKEN_STAR] = { LEVEL_PRODUCT, LEFT },
    [TOKEN_SLASH] = { LEVEL_PRODUCT, LEFT },
    [TOKEN_CARET] = { LEVEL_POWER, RIGHT },
};

static int32_t parse_expression(struct parser *parser, int minimum);

/*
 * Only the first error is kept, since the later ones are mostly its echo. Pretending that the text
 * ends here makes every loop and every open call run out by itself, without a check after each call.
 */
static int32_t fail(struct parser *parser, enum status status, int column)
{
    if (parser->outcome.status == STATUS_OK) {
        parser->outcome.status = status;
        parser->outcome.column = column;
    }
    parser->lookahead = (struct token){ .kind = TOKEN_END, .column = column };
    return 0;
}

static void advance(struct parser *parser)
{
    parser->lookahead = parser->edition->read_token(&parser->lexer);
    struct token next = parser->lookahead;
    if (next.kind == TOKEN_UNKNOWN) {
        fail(parser, STATUS_UNKNOWN_CHARACTER, next.column);
    } else if (next.kind == TOKEN_TOO_LARGE) {
        fail(parser, STATUS_NUMBER_TOO_LARGE, next.column);
    }
}

/* Signed overflow is undefined in C: compute with 64 bits, where it cannot happen, then look. */
static int32_t narrow(struct parser *parser, int64_t wide, int column)
{
    if (wide < INT32_MIN || wide > INT32_MAX) {
        return fail(parser, STATUS_OVERFLOW, column);
    }
    return (int32_t)wide;
}

/*
 * Square and multiply: result * base^exponent is the same before and after every round, and the
 * exponent halves. The last square is left out; nobody needs it and it could overflow. 0^0 is 1.
 */
static int32_t power(struct parser *parser, int32_t base, int32_t exponent, int column)
{
    if (exponent < 0) {
        return fail(parser, STATUS_NEGATIVE_EXPONENT, column);
    }

    int32_t result = 1;
    while (exponent > 0) {
        if (exponent % 2 == 1) {
            result = narrow(parser, (int64_t)result * base, column);
        }
        exponent /= 2;
        if (exponent > 0) {
            base = narrow(parser, (int64_t)base * base, column);
        }
    }
    return result;
}

static int32_t apply(struct parser *parser, struct token operator, int32_t left, int32_t right)
{
    switch (operator.kind) {
    case TOKEN_PLUS:
        return narrow(parser, (int64_t)left + right, operator.column);
    case TOKEN_MINUS:
        return narrow(parser, (int64_t)left - right, operator.column);
    case TOKEN_STAR:
        return narrow(parser, (int64_t)left * right, operator.column);
    case TOKEN_SLASH:
        if (right == 0) {
            return fail(parser, STATUS_DIVISION_BY_ZERO, operator.column);
        }
        return narrow(parser, (int64_t)left / right, operator.column);
    case TOKEN_CARET:
        return power(parser, left, right, operator.column);
    default:
        abort(); /* parse_expression() lets only binary operators through */
    }
}

static int32_t parse_operand(struct parser *parser)
{
    struct token first = parser->lookahead;

    switch (first.kind) {
    case TOKEN_NUMBER:
        advance(parser);
        return first.value;
    case TOKEN_MINUS: {
        advance(parser);
        int32_t operand = parse_expression(parser, LEVEL_SIGN);
        return narrow(parser, -(int64_t)operand, first.column);
    }
    case TOKEN_OPEN: {
        advance(parser);
        int32_t inside = parse_expression(parser, LEVEL_SUM);
        if (parser->lookahead.kind != TOKEN_CLOSE) {
            return fail(parser, STATUS_CLOSE_EXPECTED, parser->lookahead.column);
        }
        advance(parser);
        return inside;
    }
    default:
        return fail(parser, STATUS_OPERAND_EXPECTED, first.column);
    }
}

/* Takes one operand, then every operator of level `minimum` or higher that follows. */
static int32_t parse_expression(struct parser *parser, int minimum)
{
    if (parser->depth == DEPTH_LIMIT) {
        return fail(parser, STATUS_TOO_DEEP, parser->lookahead.column);
    }
    parser->depth++;
    if (parser->depth > parser->outcome.deepest) {
        parser->outcome.deepest = parser->depth;
    }

    int32_t left = parse_operand(parser);
    while (operators[parser->lookahead.kind].level >= minimum) {
        struct token operator = parser->lookahead;
        int right_minimum = parser->edition->right_minimum(operator.kind);
        advance(parser);
        int32_t right = parse_expression(parser, right_minimum);
        left = apply(parser, operator, left, right);
    }

    parser->depth--;
    return left;
}

/*
 * The lowest level that the right operand of `operator` may contain. One more than its own level
 * keeps an equal operator out, so that our loop takes it (left to right); its own level lets the
 * equal operator into the right operand (right to left).
 */
static int right_minimum(enum token_kind operator)
{
    int level = operators[operator].level;
    return operators[operator].associativity == LEFT ? level + 1 : level;
}

static int right_minimum_first_edition(enum token_kind operator)
{
    return operators[operator].level;
}

const struct edition first_edition = { token_read_first_edition, right_minimum_first_edition };
const struct edition current_edition = { token_read, right_minimum };

struct outcome evaluate(const char *text, const struct edition *edition)
{
    struct parser parser = { .lexer = { .text = text }, .edition = edition };

    advance(&parser);
    int32_t value = parse_expression(&parser, LEVEL_SUM);
    if (parser.lookahead.kind != TOKEN_END) {
        fail(&parser, STATUS_OPERATOR_EXPECTED, parser.lookahead.column);
    }
    if (parser.outcome.status == STATUS_OK) {
        parser.outcome.value = value;
    }
    return parser.outcome;
}

const char *status_message(enum status status)
{
    switch (status) {
    case STATUS_OK: return "no error";
    case STATUS_UNKNOWN_CHARACTER: return "unknown character";
    case STATUS_NUMBER_TOO_LARGE: return "number too large";
    case STATUS_OPERAND_EXPECTED: return "number, '-' or '(' expected";
    case STATUS_OPERATOR_EXPECTED: return "operator or end of text expected";
    case STATUS_CLOSE_EXPECTED: return "')' expected";
    case STATUS_DIVISION_BY_ZERO: return "division by zero";
    case STATUS_NEGATIVE_EXPONENT: return "negative exponent";
    case STATUS_OVERFLOW: return "result does not fit 32 bits";
    case STATUS_TOO_DEEP: return "nested too deeply";
    }
    return "unknown status";
}
