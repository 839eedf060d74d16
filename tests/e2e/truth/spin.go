// A Go program whose goroutines spend their time in light and heavy, 1 : 3. Arguments: seconds, and a
// file for Go's own CPU profile, which is taken at the same time.
package main

import (
	"fmt"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"
)

var sink [4]int

//go:noinline
func light(at int) {
	for i := 0; i < 100000; i++ {
		sink[at] += i ^ sink[at]
	}
}

//go:noinline
func heavy(at int) {
	for i := 0; i < 300000; i++ {
		sink[at] += i ^ sink[at]
	}
}

func worker(at int, end time.Time, wg *sync.WaitGroup) {
	defer wg.Done()
	for time.Now().Before(end) {
		light(at)
		heavy(at)
	}
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		panic(err)
	}
	if len(os.Args) > 2 {
		file, err := os.Create(os.Args[2])
		if err != nil {
			panic(err)
		}
		pprof.StartCPUProfile(file)
		defer pprof.StopCPUProfile()
	}
	fmt.Println("ready")
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	var wg sync.WaitGroup
	for i := 0; i < 3; i++ {
		wg.Add(1)
		go worker(i, end, &wg)
	}
	wg.Wait()
	fmt.Println("done")
}
