// Package redact hides values of Secrets in messages, and makes invisible characters of other people's text visible.
//
// The input is the values and any message; the output is the message with *** in place of each value, in every encoding
// that messages use: plain, on one line, line by line, quoted by Go, as JSON or YAML, in a URL, in base64 at any
// offset, and one of these within another. The package never decides what is secret, and keeps only the values'
// encodings in memory. Visible escapes the characters of a message that are invisible or change how it reads
// (visible.go).
package redact
