// Package display has what the printers of commands share: tables that fit a terminal, colours, and a writer that makes control
// characters visible.
//
// In go rows and words; out come lines for a terminal, or for a pipe, where nothing is cut and nothing is coloured. It knows no
// cluster and no NodeSync.
package display
