// SPDX-License-Identifier: MIT
pragma solidity ^0.8.20;

// No npm package contains the contracts of Solidly V1. These contracts emit its published events (BaseV1-core.sol) and
// have the functions of its pairs that the ingestor's check calls. A swap transfers the amounts of its event.

interface IToken {
    function transfer(address to, uint256 amount) external returns (bool);
    function transferFrom(address from, address to, uint256 amount) external returns (bool);
}

contract SolidlyV1Pair {
    bool public immutable stable;
    address public immutable token0;
    address public immutable token1;
    uint256 private reserve0;
    uint256 private reserve1;

    event Swap(
        address indexed sender,
        uint256 amount0In,
        uint256 amount1In,
        uint256 amount0Out,
        uint256 amount1Out,
        address indexed to
    );

    constructor(address _token0, address _token1, bool _stable) {
        (token0, token1, stable) = (_token0, _token1, _stable);
    }

    function getReserves() external view returns (uint256, uint256, uint256) {
        return (reserve0, reserve1, block.timestamp);
    }

    function mint(uint256 amount0, uint256 amount1) external {
        IToken(token0).transferFrom(msg.sender, address(this), amount0);
        IToken(token1).transferFrom(msg.sender, address(this), amount1);
        (reserve0, reserve1) = (reserve0 + amount0, reserve1 + amount1);
    }

    /// x * y = k, without a fee.
    function swap(bool zeroForOne, uint256 amountIn) external {
        if (zeroForOne) {
            uint256 out = reserve1 * amountIn / (reserve0 + amountIn);
            IToken(token0).transferFrom(msg.sender, address(this), amountIn);
            IToken(token1).transfer(msg.sender, out);
            (reserve0, reserve1) = (reserve0 + amountIn, reserve1 - out);
            emit Swap(msg.sender, amountIn, 0, 0, out, msg.sender);
        } else {
            uint256 out = reserve0 * amountIn / (reserve1 + amountIn);
            IToken(token1).transferFrom(msg.sender, address(this), amountIn);
            IToken(token0).transfer(msg.sender, out);
            (reserve0, reserve1) = (reserve0 - out, reserve1 + amountIn);
            emit Swap(msg.sender, 0, amountIn, out, 0, msg.sender);
        }
    }
}

contract SolidlyV1Factory {
    mapping(address => mapping(address => mapping(bool => address))) public getPair;
    uint256 private count;

    event PairCreated(address indexed token0, address indexed token1, bool stable, address pair, uint256);

    function createPair(address tokenA, address tokenB, bool stable) external returns (address pair) {
        (address token0, address token1) = tokenA < tokenB ? (tokenA, tokenB) : (tokenB, tokenA);
        pair = address(new SolidlyV1Pair(token0, token1, stable));
        getPair[token0][token1][stable] = pair;
        count++;
        emit PairCreated(token0, token1, stable, pair, count);
    }
}
