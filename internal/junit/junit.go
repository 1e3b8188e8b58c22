// Package junit writes results as JUnit's XML, as CI systems read it (https://github.com/testmoapp/junitxml).
package junit

import (
	"encoding/xml"
	"fmt"
)

// Suite is a set of cases.
type Suite struct {
	Name  string
	Cases []Case
}

// Case is one result. It fails if Failure is set, and could not be determined if Error is.
type Case struct {
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	Failure *Trouble `xml:"failure,omitempty"`
	Error   *Trouble `xml:"error,omitempty"`
	Out     string   `xml:"system-out,omitempty"`
}

// Trouble is why a case failed: a message, and details.
type Trouble struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type suites struct {
	XMLName xml.Name `xml:"testsuites"`
	Suite   suite    `xml:"testsuite"`
}

type suite struct {
	Name     string `xml:"name,attr"`
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Errors   int    `xml:"errors,attr"`
	Cases    []Case `xml:"testcase"`
}

// XML returns the suite as a document.
func (s Suite) XML() ([]byte, error) {
	written := suite{Name: s.Name, Tests: len(s.Cases), Cases: s.Cases}
	for _, one := range s.Cases {
		if one.Failure != nil {
			written.Failures++
		}
		if one.Error != nil {
			written.Errors++
		}
	}
	text, err := xml.MarshalIndent(suites{Suite: written}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode as JUnit: %w", err)
	}
	return append([]byte(xml.Header), append(text, '\n')...), nil
}
