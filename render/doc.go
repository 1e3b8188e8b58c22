// Package render turns a Snapshot into a Set.
//
// Its input is a read-only file system with a folder in it, the plumbline.yaml of that folder, and the schemas of the
// CRDs of the definitions. Its output is a Set: the objects in the order of their Stages, each with its file, and the
// Inputs that were read. If anything is wrong, it returns all errors at once, each with file and line, and no Set.
//
// It decodes, substitutes, classifies, validates and orders. It never contacts a cluster or a network, never runs a
// program and never writes.
package render
