// Package wire reads the JSON that the API server sends of one kind in one go.
//
// client-go reads each event of a watch some ten times: to find its end, whether it is valid, its
// type, the kind in it, and then the object. In go a serializer of client-go and what reads one
// object; out comes a serializer that reads the objects of that kind so, and all else as
// client-go's does. What comes out is the same; only the processor time is not.
//
// It never guesses: an event that does not begin as the API server writes it goes to client-go,
// and after one that could not be read all of them do.
package wire
