package leftover

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// suites is JUnit's XML as CI systems read it
// (https://github.com/testmoapp/junitxml): a case for each question.
type suites struct {
	XMLName xml.Name `xml:"testsuites"`
	Suite   suite    `xml:"testsuite"`
}

type suite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Cases    []suiteCase `xml:"testcase"`
}

type suiteCase struct {
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	Failure *trouble `xml:"failure,omitempty"`
	Error   *trouble `xml:"error,omitempty"`
	Out     string   `xml:"system-out,omitempty"`
}

type trouble struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit is the Report as JUnit's XML: what is left fails the case of its kind, a question
// without an answer is an error.
func (r Report) JUnit() ([]byte, error) {
	s := suite{Name: "plumbline verify --gone"}
	for _, kind := range r.Kinds {
		one := suiteCase{Class: r.Cluster, Name: "no " + Noun(kind.Kind) + " is left", Out: lines(kind.Kept)}
		switch {
		case kind.Error != "":
			s.Errors++
			one.Error = &trouble{Message: kind.Error, Text: lines(kind.Left)}
		case len(kind.Left) > 0:
			s.Failures++
			only := Report{Kinds: []Kind{kind}}
			one.Failure = &trouble{Message: "left: " + only.String(), Text: lines(kind.Left)}
		}
		s.Cases = append(s.Cases, one)
	}
	if words := r.Misplaced(); words != "" {
		s.Errors++
		s.Cases = append(s.Cases, suiteCase{Class: r.Cluster, Name: "it is the region", Error: &trouble{Message: words}})
	}
	s.Tests = len(s.Cases)
	text, err := xml.MarshalIndent(suites{Suite: s}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode as JUnit: %w", err)
	}
	return append([]byte(xml.Header), append(text, '\n')...), nil
}

func lines(items []Item) string {
	var text strings.Builder
	for _, item := range items {
		fmt.Fprintln(&text, strings.Join(strings.Fields(item.ID+" "+item.Zone+" "+item.State+" "+item.What), " "))
	}
	return text.String()
}
