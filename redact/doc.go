// Package redact keeps what came out of a Secret out of messages, and has them show what
// other people wrote in them.
//
// In go the values, and any message; out comes the message with *** in the place of
// each value, in every encoding that messages use: as it is, in one line, line by
// line, quoted by Go, as JSON or YAML, in a URL, in base64 at any offset, and one of these
// within another. It never decides what is secret, and keeps nothing but the values'
// encodings in memory. Visible writes out the characters of a message that are not seen, or
// change how it reads (visible.go).
package redact
