/*
 * Characters to tokens.
 *
 * The parser never looks at characters: it asks for one token after another, and each token
 * knows its kind and the place it came from. A token keeps its place because, once the text
 * has been cut up, nobody else could tell where an error is.
 */
#ifndef CALC_TOKEN_H
#define CALC_TOKEN_H

#include <stdint.h>

enum token_kind {
    TOKEN_END,       /* the text is over; reading on gives TOKEN_END again */
    TOKEN_NUMBER,
    TOKEN_PLUS,
    TOKEN_MINUS,     /* one kind for both meanings: only the parser knows which is meant */
    TOKEN_STAR,
    TOKEN_SLASH,
    TOKEN_CARET,
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_UNKNOWN,   /* a character that belongs to no token */
    TOKEN_TOO_LARGE, /* a number that an int32_t cannot hold */
    TOKEN_KIND_COUNT
};

struct token {
    enum token_kind kind;
    int column;    /* of its first character; the first column is 1, as people and editors count */
    int length;    /* in characters; TOKEN_END has none */
    int32_t value; /* of a TOKEN_NUMBER, otherwise 0 */
};

struct lexer {
    const char *text; /* the whole expression, ended by '\0' */
    int cursor;       /* index of the first character that is not read yet; starts at 0 */
};

/* Reads the next token and moves the cursor behind it. Never fails: a problem is a kind of token. */
struct token token_read(struct lexer *lexer);

/* The same job as the first edition of this program did it. See struct edition in parser.h. */
struct token token_read_first_edition(struct lexer *lexer);

#endif
