"""pbzip2, a compressor in C++: threads that share a queue and a buffer.

Not recorded are ``*fifo`` and ``NumBufferedBlocks`` while the threads run, which depend on their order, and the whole
``BZ2StreamScanner``: its ``_inBuffEnd`` points behind the data that was read.
"""

from __future__ import annotations

import bz2
from pathlib import Path
from typing import Any

from tests.capabilities import need, need_program
from tests.release.others.program import At, Mutation, OtherProgram, from_debian_sources

BUILD = """\
options := -g -O0 -w -std=gnu++98 -pthread -D_FILE_OFFSET_BITS=64 -D_LARGEFILE64_SOURCE
pbzip2: pbzip2.o BZ2StreamScanner.o ErrorContext.o
	g++ -pthread -o $@ $^ -lbz2
%.o: %.cpp pbzip2.h BZ2StreamScanner.h ErrorContext.h
	g++ $(options) -c -o $@ $<
"""
TEXT = "".join(f"line {number} of a text\n" for number in range(15000))
STREAMS = b"".join(bz2.compress(f"stream {number}".encode() * 20) for number in range(4))


def source(text: str, **more: Any) -> dict[str, Any]:
    return {"file": "pbzip2.cpp", "text": text, **more}


def pbzip2() -> OtherProgram:
    need_program("g++")
    need(Path("/usr/include/bzlib.h").exists(), "bzlib.h (Debian package libbz2-dev)")
    return OtherProgram(
        "pbzip2",
        from_debian_sources("pbzip2"),
        BUILD,
        {
            "program": "pbzip2",
            "args": ["-k", "-f", "-p3", "-b1", "words.txt"],
            "sources": ["pbzip2.cpp", "pbzip2.h", "BZ2StreamScanner.cpp"],
            "runs": {"decompress": {"args": ["-d", "-c", "-p3"], "stdin": "streams.bz2"}},
        },
        (
            At(
                {"function": "queueInit"}, "queueSize ; NumBlocks ; OutputBuffer ; sigInFilename ; fileMetaData.st_size"
            ),
            At(
                source("OutputBuffer.assign(size, emptyElement);"),
                "size ; emptyElement ; OutputBuffer ; NumBufferedBlocksMax ; NumBlocksEstimated ; BWTblockSizeChar",
            ),
            At(
                source("outBuff * queueElement = new(std::nothrow) outBuff(FileData, inSize, NumBlocks, 0);", hits=2),
                "inSize ; NumBlocks ; ret ; blockSize ; FileData ; fifo->size",
            ),
            At(
                source(
                    "outSize = (unsigned int) (((fileData->bufSize)*1.01)+600);", **{"if": "fileData->blockNumber == 1"}
                ),
                "*fileData ; fileData->buf ; fileData->bufSize ; CompressedData ; ret ; fifo->size",
            ),
            At(
                source("outBuff outBlock = outBuff(CompressedData,", **{"if": "fileData->blockNumber == 2"}),
                "outSize ; *fileData ; CompressedData ; ret ; BWTblockSize",
            ),
            At(
                source("++NumBufferedBlocks;", **{"if": "element.blockNumber == 2"}),
                "element ; caller ; dist ; outBuffPos ; size(OutputBuffer) ; OutputBuffer[outBuffPos]",
            ),
            At(
                source("bytesProcessed += outBlock->inSize;", hits=2),
                "ret ; CompressedSize ; *outBlock ; OutFilename ; bytesProcessed ; currBlock ; outBufferPos",
            ),
            At(
                source("OutputBuffer.clear();"),
                "OutputBuffer ; outFilename ; NumBlocks ; *fifo ; argv[4] ; fileMetaData.st_size ; NextBlockToWrite",
            ),
            At(
                source("NumBlocks = fileData->blockNumber + 1;", hits=3),
                "*fileData ; bz2StreamScanner._bz2Header ; bz2StreamScanner._outBuff ; bz2StreamScanner._streamNumber"
                " ; bz2StreamScanner._inBuffSearchPtr",
                "decompress",
            ),
            At(
                {"file": "BZ2StreamScanner.cpp", "text": "_inBuffCurrent = end;", "hits": 2},
                "additionSize ; _outBuff ; _bz2Header ; _outBuffCapacityHint",
                "decompress",
            ),
        ),
        (
            Mutation("BZ2StreamScanner.cpp", "( 11 * newSize ) / 10", "( 12 * newSize ) / 10"),
            Mutation("pbzip2.h", "sequenceNumber(aSequenceNumber)", "sequenceNumber(aBlockNumber)"),
            Mutation(
                "pbzip2.cpp", "(InFileSize + blockSize - 1) / blockSize", "(InFileSize - blockSize + 1) / blockSize"
            ),
            Mutation("pbzip2.cpp", "bufSize, BWTblockSize, Verbosity, 30)", "bufSize, Verbosity + 1, Verbosity, 30)"),
            Mutation("pbzip2.cpp", "emptyElement.bufSize = 0;", "emptyElement.bufSize = 1;"),
        ),
        {"words.txt": TEXT, "streams.bz2": STREAMS},
    )
