// Package markdown reads the project's documents, for tests that check them.
package markdown

import (
	"os"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// Document is the part of a file that tests check.
type Document struct {
	// Anchors are those of its headings, as GitHub and mkdocs generate them.
	Anchors map[string]bool
	Links   []Link
	Blocks  []Block
}

// Link leads from a line to a URL, a path or an anchor.
type Link struct {
	Line int
	To   string
}

// Block is a fenced code block.
type Block struct {
	Line int
	// Section is the heading above it.
	Section string
	// Language is the first word after the fence; Mark is an HTML comment right above it.
	Language, Mark string
	Text           string
}

// Read reads a file.
func Read(path string) (*Document, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return Parse(source), nil
}

// Parse reads a document.
func Parse(source []byte) *Document {
	d := &Document{Anchors: map[string]bool{}}
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	section, mark, line := "", "", 1
	// Walk fails only if the function does.
	_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		if node.Type() == ast.TypeBlock && node.Lines().Len() > 0 {
			line = 1 + strings.Count(string(source[:node.Lines().At(0).Start]), "\n")
		}
		switch node := node.(type) {
		case *ast.Heading:
			section = plain(node, source)
			d.Anchors[Anchor(section)] = true
		case *ast.Link:
			d.Links = append(d.Links, Link{line, string(node.Destination)})
		case *ast.Image:
			d.Links = append(d.Links, Link{line, string(node.Destination)})
		case *ast.FencedCodeBlock:
			if before, ok := node.PreviousSibling().(*ast.HTMLBlock); ok {
				mark = strings.TrimSpace(string(before.Lines().Value(source)))
			}
			d.Blocks = append(d.Blocks, Block{line, section, string(node.Language(source)), mark, string(node.Lines().Value(source))})
			mark = ""
		}
		return ast.WalkContinue, nil
	})
	return d
}

// plain returns the text of a heading without its markup.
func plain(of ast.Node, source []byte) string {
	var words strings.Builder
	for node := of.FirstChild(); node != nil; node = node.NextSibling() {
		if leaf, ok := node.(*ast.Text); ok {
			words.Write(leaf.Value(source))
			continue
		}
		words.WriteString(plain(node, source))
	}
	return words.String()
}

// Anchor returns that of a heading: in lower case, without punctuation, with hyphens for spaces.
func Anchor(heading string) string {
	kept := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_ ", r) {
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
	return strings.ReplaceAll(kept, " ", "-")
}
