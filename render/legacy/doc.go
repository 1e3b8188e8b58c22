// Package legacy knows what Karpenter's kinds were called before v1.
//
// Its input is the apiVersion and kind of an object, its output the kind that replaced it. It is a table: it converts
// nothing and does no I/O.
package legacy
