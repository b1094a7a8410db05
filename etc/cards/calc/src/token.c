#include "token.h"

#include <stdbool.h>

/* Not isdigit(): its answer depends on the locale, and a negative char is outside its domain. */
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_blanks(struct lexer *lexer)
{
    while (lexer->text[lexer->cursor] == ' ' || lexer->text[lexer->cursor] == '\t') {
        lexer->cursor++;
    }
}

static enum token_kind kind_of(char c)
{
    switch (c) {
    case '+': return TOKEN_PLUS;
    case '-': return TOKEN_MINUS;
    case '*': return TOKEN_STAR;
    case '/': return TOKEN_SLASH;
    case '^': return TOKEN_CARET;
    case '(': return TOKEN_OPEN;
    case ')': return TOKEN_CLOSE;
    default: return TOKEN_UNKNOWN;
    }
}

/* A token that began at index `start` and ends right before the cursor. */
static struct token make_token(const struct lexer *lexer, int start, enum token_kind kind, int32_t value)
{
    return (struct token){
        .kind = kind,
        .column = start + 1,
        .length = lexer->cursor - start,
        .value = value,
    };
}

static struct token read_number(struct lexer *lexer, int start)
{
    int64_t value = 0;

    while (is_digit(lexer->text[lexer->cursor])) {
        int digit = lexer->text[lexer->cursor] - '0';
        /* A value past the limit stays as it is: still too large, and never too large for 64 bits. */
        if (value <= INT32_MAX) {
            value = value * 10 + digit;
        }
        lexer->cursor++;
    }
    if (value > INT32_MAX) {
        return make_token(lexer, start, TOKEN_TOO_LARGE, 0);
    }
    return make_token(lexer, start, TOKEN_NUMBER, (int32_t)value);
}

/*
 * The cursor stands on the token's first character, or on the end of the text; `start` is the index
 * that the token will name as its beginning.
 */
static struct token read_from(struct lexer *lexer, int start)
{
    char c = lexer->text[lexer->cursor];

    if (c == '\0') {
        /* The cursor stays, so it can never run past the end however often we are asked. */
        return make_token(lexer, start, TOKEN_END, 0);
    }
    if (is_digit(c)) {
        return read_number(lexer, start);
    }
    lexer->cursor++;
    return make_token(lexer, start, kind_of(c), 0);
}

struct token token_read(struct lexer *lexer)
{
    skip_blanks(lexer);
    int start = lexer->cursor;
    return read_from(lexer, start);
}

struct token token_read_first_edition(struct lexer *lexer)
{
    int start = lexer->cursor;
    skip_blanks(lexer);
    return read_from(lexer, start);
}
