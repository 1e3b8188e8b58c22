// Package legacy knows what Karpenter's kinds were called before v1.
//
// In goes the apiVersion and kind of an object, out comes what became of it. It
// is a table: it converts nothing and does no I/O.
package legacy
