// Package display contains what the printers of commands share: tables that fit a terminal, colours, and a writer that
// makes control characters visible.
//
// It turns rows and words into lines for a terminal, or for a pipe, in which it cuts and colours nothing. It does not
// access a cluster or a NodeSync.
package display
