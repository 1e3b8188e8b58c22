package conversion

// Result is what became of a field.
type Result string

// The results. Decision and Refused leave a definition as it is: nothing of any file may be written until none is left.
const (
	// Mapped is a field that v1 has in the same place, perhaps with another value.
	Mapped Result = "mapped"
	// Moved is a field that v1 has in another place.
	Moved Result = "moved"
	// Added is a default of the earlier version that v1 does not have, or has changed.
	Added Result = "added"
	// Dropped is a field that v1 does not need.
	Dropped Result = "dropped"
	// Decision is a field that only a person can convert.
	Decision Result = "decision"
	// Refused is a field for which v1 has nothing.
	Refused Result = "refused"
)

// Field is what became of one field.
type Field struct {
	// Path in the earlier version, as in spec.ttlSecondsAfterEmpty; for a field that is Added, the one in v1.
	Path string `json:"path"`
	// Line in the file, from 1; 0 if the field is not in it.
	Line   int    `json:"line,omitempty"`
	Result Result `json:"result"`
	// To is where it is now, if not at Path. Object is the definition that it is in, if not the same one.
	To     string `json:"to,omitempty"`
	Object string `json:"object,omitempty"`
	// Value is its new value, if it is another one and short.
	Value string `json:"value,omitempty"`
	// Reason is why, or what to know; for a Decision or a refusal, what to do.
	Reason string `json:"reason,omitempty"`
}

// Unchanged reports whether the field is in v1 as it was.
func (f Field) Unchanged() bool { return f.Result == Mapped && f.Value == "" && f.Reason == "" }

// Object is one definition that was converted.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// Line of its document, from 1.
	Line int `json:"line"`
	// Becomes are the definitions of v1 that it became: NodePool/batch.
	Becomes []string `json:"becomes"`
	Fields  []Field  `json:"fields"`
}

// Converted is a file with definitions that were converted.
type Converted struct {
	Name    string   `json:"name"`
	Objects []Object `json:"objects"`
	// Before and After are its text.
	Before []byte `json:"-"`
	After  []byte `json:"-"`
}

// Left is something of an earlier version that is not converted.
type Left struct {
	File string `json:"file"`
	// Line from 1; 0 if unknown.
	Line int `json:"line,omitempty"`
	// What it is, and Why it is not converted and what to do.
	What string `json:"what"`
	Why  string `json:"why"`
	// Blocks means that nothing may be written until it is corrected.
	Blocks bool `json:"blocks,omitempty"`
}

// Conversion is the result for all files.
type Conversion struct {
	// Files with definitions of earlier versions, or whose text changes, in order.
	Files []Converted `json:"files"`
	Left  []Left      `json:"left,omitempty"`
}

// Open returns how many fields need a decision or are refused, and how many things block.
func (c Conversion) Open() int {
	open := 0
	for _, left := range c.Left {
		if left.Blocks {
			open++
		}
	}
	for _, file := range c.Files {
		for _, object := range file.Objects {
			for _, f := range object.Fields {
				if f.Result == Decision || f.Result == Refused {
					open++
				}
			}
		}
	}
	return open
}
