/*
 * The lessons, in the order of the card. Each one keeps its results in named variables, so that they
 * can be seen side by side in the debugger, and says whether all of them are as taught.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "parser.h"
#include "token.h"

static struct outcome show_in(const char *text, const struct edition *edition)
{
    struct outcome outcome = evaluate(text, edition);
    if (outcome.status == STATUS_OK) {
        printf("  %s = %" PRId32 "\n", text, outcome.value);
    } else {
        printf("  %s\n", text);
        printf("  %*s^ column %d: ", outcome.column - 1, "", outcome.column);
        printf("%s\n", status_message(outcome.status));
    }
    return outcome;
}

static struct outcome show(const char *text)
{
    return show_in(text, &current_edition);
}

static bool is_value(struct outcome outcome, int32_t value)
{
    return outcome.status == STATUS_OK && outcome.value == value;
}

static bool is_error(struct outcome outcome, enum status status, int column)
{
    return outcome.status == status && outcome.column == column;
}

static struct token first_token(const char *text)
{
    struct lexer lexer = { .text = text };
    return token_read(&lexer);
}

static bool lesson_tokens(void)
{
    struct lexer lexer = { .text = "  12+345 *6" };
    struct token tokens[8];
    int count = 0;
    do {
        tokens[count] = token_read(&lexer);
        count++;
    } while (tokens[count - 1].kind != TOKEN_END);
    struct token again = token_read(&lexer);

    struct token dollar = first_token("$");
    struct token largest = first_token("2147483647");
    struct token too_large = first_token("2147483648");

    printf("  %d tokens, the last at column %d\n", count, again.column);
    return count == 6 && again.kind == TOKEN_END && dollar.kind == TOKEN_UNKNOWN
        && largest.value == INT32_MAX && too_large.kind == TOKEN_TOO_LARGE;
}

static bool lesson_precedence(void)
{
    struct outcome number = show("7");
    struct outcome sum = show("1+2");
    struct outcome product_last = show("1+2*3");
    struct outcome product_first = show("2*3+1");
    return is_value(number, 7) && is_value(sum, 3)
        && is_value(product_last, 7) && is_value(product_first, 7);
}

static bool lesson_associativity(void)
{
    struct outcome minus = show("8-3-2");
    struct outcome caret = show("2^3^2");
    struct outcome long_sum = show("1+1+1+1+1");
    struct outcome long_power = show("1^1^1^1^1");
    return is_value(minus, 3) && is_value(caret, 512)
        && is_value(long_sum, 5) && is_value(long_power, 1);
}

static bool lesson_parentheses(void)
{
    struct outcome product = show("(1+2)*3");
    struct outcome nested = show("((4))");
    return is_value(product, 9) && is_value(nested, 4);
}

static bool lesson_sign(void)
{
    struct outcome power_first = show("-2^2");
    struct outcome sign_first = show("(-2)^2");
    struct outcome both_minus = show("2--3");
    struct outcome fraction = show("-7/2");
    return is_value(power_first, -4) && is_value(sign_first, 4)
        && is_value(both_minus, 5) && is_value(fraction, -3);
}

static bool lesson_syntax_errors(void)
{
    struct outcome operand = show("1+*2");
    struct outcome operator = show("1 2");
    struct outcome close = show("(1+2");
    struct outcome unknown = show("3 $ 4");
    struct outcome echoes = show("8/(");
    return is_error(operand, STATUS_OPERAND_EXPECTED, 3) && is_error(operator, STATUS_OPERATOR_EXPECTED, 3)
        && is_error(close, STATUS_CLOSE_EXPECTED, 5) && is_error(unknown, STATUS_UNKNOWN_CHARACTER, 3)
        && is_error(echoes, STATUS_OPERAND_EXPECTED, 4);
}

static bool lesson_value_errors(void)
{
    struct outcome zero = show("8/(4-2*2)");
    struct outcome overflow = show("2147483647+1");
    struct outcome literal = show("-2147483648");
    struct outcome detour = show("-2147483647-1");
    struct outcome power_fits = show("(-2)^31");
    struct outcome power_overflows = show("2^31");
    struct outcome exponent = show("2^-1");
    return is_error(zero, STATUS_DIVISION_BY_ZERO, 2) && is_error(overflow, STATUS_OVERFLOW, 11)
        && is_error(literal, STATUS_NUMBER_TOO_LARGE, 2) && is_value(detour, INT32_MIN)
        && is_value(power_fits, INT32_MIN) && is_error(power_overflows, STATUS_OVERFLOW, 2)
        && is_error(exponent, STATUS_NEGATIVE_EXPONENT, 2);
}

static bool lesson_depth(void)
{
    struct outcome too_deep = show("((((((((((((((((((((((((((((((((((((((((");
    return is_error(too_deep, STATUS_TOO_DEEP, 33);
}

/* What the complaints about the first edition said, and the same texts today. */
static bool lesson_editions(void)
{
    struct outcome caret_then = show_in("1 + * 2", &first_edition);
    struct outcome caret_now = show_in("1 + * 2", &current_edition);
    struct outcome minus_then = show_in("8-3-2", &first_edition);
    struct outcome minus_now = show_in("8-3-2", &current_edition);
    return is_error(caret_then, STATUS_OPERAND_EXPECTED, 4) && is_error(caret_now, STATUS_OPERAND_EXPECTED, 5)
        && is_value(minus_then, 7) && is_value(minus_now, 3);
}

static const struct {
    const char *title;
    bool (*run)(void);
} lessons[] = {
    { "tokens", lesson_tokens },
    { "precedence", lesson_precedence },
    { "associativity", lesson_associativity },
    { "parentheses", lesson_parentheses },
    { "the sign", lesson_sign },
    { "errors in the text", lesson_syntax_errors },
    { "errors in the values", lesson_value_errors },
    { "the limit of depth", lesson_depth },
    { "two editions", lesson_editions },
};

int main(void)
{
    int unexpected = 0;
    for (size_t i = 0; i < sizeof lessons / sizeof lessons[0]; i++) {
        printf("%s\n", lessons[i].title);
        if (!lessons[i].run()) {
            printf("  not as taught\n");
            unexpected++;
        }
    }
    return unexpected == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
