// Package redact keeps what came out of a Secret out of messages.
//
// In go the values, and any message; out comes the message with *** in the place of
// each value, in every encoding that messages use: as it is, in one line, line by
// line, quoted by Go, as JSON or YAML, in a URL, in base64 at any offset, and one of these
// within another. It never decides what is secret, and keeps nothing but the values'
// encodings in memory.
package redact
