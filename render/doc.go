// Package render turns a Snapshot into a Set.
//
// In go a read-only file system with a folder in it, the plumbline.yaml of that
// folder, and the schema of the CRDs that the definitions are for. Out comes a
// Set: the objects in the order of their Stages, each with the file it came
// from, and the Inputs that were read. Where anything is wrong, all errors come
// back at once, each with file and line, and no Set.
//
// It decodes, substitutes, classifies, validates and orders. It never speaks to
// a cluster or a network, never runs a program and never writes.
package render
