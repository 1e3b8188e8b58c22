// Package recording records what a terminal shows: as an asciicast (version 2), which players of asciinema read, and as
// pictures made of text (SVG). It runs nothing.
package recording
