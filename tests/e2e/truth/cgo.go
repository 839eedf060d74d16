// Beside spin.go: the same program with the C library in it.
package main

import "C"
